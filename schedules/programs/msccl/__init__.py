"""Programs as MSCCL XML, which MSCCL and RCCL load.

Read `flavours` (what the two take: names, limits), `printer`, `reader`, then `lint` (the runtimes' own rules,
for anybody's files; everything that is printed is checked by it).
"""
