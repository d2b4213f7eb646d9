"""Programs: what each rank does, instruction by instruction, as runtimes load it.

Read `program` first: it is the one form that every format is printed from and read into. `layout` says which
datum stands where in the buffers. `rounding`, `moves`, `ordering` and `lowering` make a program of a
schedule; `serial` and `raising` make a schedule of a program. `interpreter` judges programs, which the
`machine` runs; `races` and `faults` find and name errors. `msccl` is one file format; `formats` lists all.
"""
