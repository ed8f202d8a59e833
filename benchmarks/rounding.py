"""How results are rounded."""


def percent(estimate):
    """Return a mean and its interval in percent, to one decimal place."""
    return [round(100 * value, 1) for value in (estimate.mean, estimate.low, estimate.high)]
