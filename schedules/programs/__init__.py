"""Programs: what each rank does, instruction by instruction, as runtimes load it.

Read `program` first: it is the one form that every format is printed from and read into. `moves`, `ordering`
and `lowering` make a program of a schedule; `serial` and `raising` make a schedule of a program.
`interpreter` judges programs, which the `machine` runs, and names their faults; `races` finds accesses in no
certain order. `msccl` is one file format; `formats` lists all.
"""
