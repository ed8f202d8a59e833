print("\uff16\uff17\uff16\uff15")
print("1\u200b3")
