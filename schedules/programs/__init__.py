"""Programs: what each rank does, instruction by instruction, as runtimes load it.

Read `program` (the one form, which every format is printed from and read into) and `layout` (which datum
stands where in the buffers); then how a schedule becomes one: `rounding`, `moves`, `ordering`, `lowering`;
and how one becomes a schedule: `serial`, `raising`. `interpreter` judges programs, on the
`machine` that runs them; `races` and `faults` find and name what is wrong. `msccl` is a format of files,
`formats` the list of these.
"""
