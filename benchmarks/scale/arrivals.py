"""Loads: the mean rate of arrivals in each step of time, as a multiple of a base rate."""

import numpy as np

STEP = 0.2
"""The seconds of a step, within which the rate is constant."""


def bursts(seconds, chance, quiet=45.0, burst=15.0, height=3.0):
    """A mean of 1, in bursts of `height` times the rate between them (a Poisson process with two states)."""
    low = (quiet + burst) / (quiet + height * burst)
    rates = np.empty(round(seconds / STEP))
    at, loud = 0, False
    while at < len(rates):
        length = max(round(chance.exponential(burst if loud else quiet) / STEP), 1)
        rates[at : at + length] = low * (height if loud else 1)
        at, loud = at + length, not loud
    return rates


def day(seconds, _chance, least=0.25):
    """A day that begins and ends at night: from `least` at night to 1 at noon, whatever its length."""
    phase = np.arange(round(seconds / STEP)) * STEP / seconds
    return least + (1 - least) * (1 - np.cos(2 * np.pi * phase)) / 2


def step(seconds, _chance, at=120.0, until=720.0, height=5.0):
    """From one moment to another, `height` times as many."""
    time = np.arange(round(seconds / STEP)) * STEP
    return np.where((time >= at) & (time < until), height, 1.0)


def flash(seconds, _chance, at=120.0, rise=30.0, height=10.0, decay=120.0):
    """A crowd: within `rise` seconds `height` times as many, then fewer and fewer."""
    time = np.arange(round(seconds / STEP)) * STEP - at
    shape = np.where(time < rise, np.clip(time / rise, 0, 1), np.exp(-np.maximum(time - rise, 0) / decay))
    return 1 + (height - 1) * shape


def steady(seconds, _chance):
    """Always 1."""
    return np.ones(round(seconds / STEP))


def counts(rates, chance):
    """Return how many arrive in each step (Poisson) at these rates a second."""
    return chance.poisson(rates * STEP)


def moments(counted, chance):
    """Return the moments of arrivals, by their number in each step, in order."""
    starts = np.repeat(np.arange(len(counted)) * STEP, counted)
    return np.sort(starts + chance.random(len(starts)) * STEP)
