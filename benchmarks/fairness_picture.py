"""The picture of README.md: how many messages are served before a quiet tenant's message.

Two bars on one linear scale. Colours follow the reader's light or dark mode; the picture draws its own
background, so it can be read on any page.
"""

import statistics
from collections.abc import Sequence
from pathlib import Path
from string import Template

LEFT = 160  # where the bars begin
SCALE_WIDTH = 500  # from 0 to the last tick
TICKS = 3
SVG = Template("""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 270" role="img" aria-labelledby="title">
<title id="title">$title</title>
<style>
  svg { --paper: #ffffff; --ink: #1f2328; --faint: #59636e; --line: #d1d9e0; --fifo: #c4553b; --ours: #1a6fb0 }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #0d1117; --ink: #f0f6fc; --faint: #9198a1; --line: #3d444d; --fifo: #e5806a; --ours: #58a6ff }
  }
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: var(--ink); font-size: 15px }
  .finding { font-size: 19px; font-weight: 600 }
  .faint { fill: var(--faint); font-size: 14px; font-weight: 400 }
  .number { font-size: 17px; font-weight: 600 }
  .name { font-weight: 600; text-anchor: end }
  .tick { fill: var(--faint); font-size: 13px; text-anchor: middle }
  line { stroke: var(--line) }
</style>
<rect width="800" height="270" rx="8" style="fill: var(--paper); stroke: var(--line)"/>
<text class="finding" x="24" y="36">$title</text>
<text class="faint" x="24" y="60">$subtitle</text>
$scale
<text class="name" x="148" y="113">$fifo_name</text>
<rect x="160" y="90" width="$fifo_width" height="34" style="fill: var(--fifo)"/>
<text class="number" x="$fifo_end" y="113">$fifo</text>
<text class="name" x="148" y="169">LonnyMQ</text>
<rect x="160" y="146" width="$ours_width" height="34" style="fill: var(--ours)"/>
<text class="number" x="$ours_end" y="169" style="fill: var(--ours)">$ours <tspan class="faint">$worst</tspan></text>
<text class="tick" x="410" y="250">messages served before the quiet tenant's message (median)</text>
</svg>
""")


def write(path: Path, *, backlog: int, quiet: int, fifo: Sequence[int], ours: Sequence[int]) -> None:
    """`fifo` and `ours` say, for each message of a quiet tenant, how many were served before it."""
    fifo_median, ours_median = statistics.median(fifo), statistics.median(ours)
    last = -(-max(backlog, fifo_median) // TICKS) * TICKS
    scale = []
    for tick in range(TICKS + 1):
        x = LEFT + SCALE_WIDTH * tick // TICKS
        scale.append(f'<line x1="{x}" y1="78" x2="{x}" y2="200"/>')
        scale.append(f'<text class="tick" x="{x}" y="220">{last * tick / TICKS:,.0f}</text>')
    widths = {
        "fifo_width": max(2, round(SCALE_WIDTH * fifo_median / last)),
        "ours_width": max(2, round(SCALE_WIDTH * ours_median / last)),
    }
    svg = SVG.substitute(
        title=f"Behind a noisy tenant, others wait for {ours_median:,.0f} messages, not {fifo_median:,.0f}",
        subtitle=f"One tenant has {backlog:,} messages waiting; {quiet} quiet tenants send one now and then.",
        scale="\n".join(scale),
        fifo_name="FIFO queue",
        fifo=f"{fifo_median:,.0f}",
        ours=f"{ours_median:,.0f}",
        worst=f"(worst: {max(ours):,})",
        fifo_end=LEFT + widths["fifo_width"] + 10,
        ours_end=LEFT + widths["ours_width"] + 10,
        **widths,
    )
    path.write_text(svg, encoding="utf-8")
