"""Programs: what each rank does, instruction by instruction, as runtimes load it.

Read `program` (the one form, which every format is printed from and read into), `layout` (which datum stands
where in the buffers), then `lowering` (from a schedule), `interpreter` (runs one and judges it).
"""
