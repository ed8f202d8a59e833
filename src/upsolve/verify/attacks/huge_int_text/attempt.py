import sys
sys.set_int_max_str_digits(0)
def f(n):
    return 1 << 40000000
