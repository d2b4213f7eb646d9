"""Networks and schedules to look at: ``tutti show``, `tutti.show`, and pictures for reports.

Read `layout` first: where nodes stand; then `drawing`: the picture of a network with what its links carry;
`player`: a schedule's messages as the simulator times them; `page`: all of it in one file that needs nothing
else, which `show.js` brings to life, and what a text or a file names. `svg` writes elements.
"""
