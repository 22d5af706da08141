"""Reports on how each tenant was served.

- `build` has `report()`, which computes the numbers; `percentiles` and `fair_share` are its two larger parts
- `model` has the numbers as plain data
- `terminal` prints them; `page` writes them as one HTML page, with `plots`, `style` and `explanations`
- `fields` are the columns that both show, `formats` writes names and numbers for people
"""
