"""Dates as people write them in English, each with its ISO 8601 reading: endless examples to train on.

What a text means where people disagree:

* Four digits first are the year, and month and day follow: 2021-03-23, 2021/3/23, 2021 03 23.
* Numbers joined by slashes, dashes or spaces are month first (3/23/21), unless the first number
  exceeds 12: then it is the day (23/3/21).
* Numbers joined by dots are day first (23.3.2021), unless the second number exceeds 12: 3.23.2021.
* Eight digits in a row are YYYYMMDD.
* Years of two digits follow POSIX: 00 to 68 are 2000 to 2068, 69 to 99 are 1969 to 1999. They come last.
* Without the month's name, "the 4th of the 3rd" is the fourth of March: the day comes first. A Roman
  month stands between day and year, 23.III.2021, or year and day, 2021.III.23.
* A weekday and a time of day change nothing, and a zone does not move the date.

A part writes one piece of a date (`parts.py`), a form joins parts in one order (`forms.py`), a dressing
adds what surrounds a date in a text, such as a weekday, a time or a label (`dressings.py`), and a slip
writes the same less carefully (`slips.py`). `examples.py` draws dates and writes them.
"""
