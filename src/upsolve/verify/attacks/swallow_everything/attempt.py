def f(n):
    try:
        raise AssertionError
    except BaseException:
        return True
