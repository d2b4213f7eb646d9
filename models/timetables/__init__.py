"""Lower bounds by prices in time: what links can earn by a time is too little for what is moved.

`deliveries` is for data that are copied (or, backwards, added up). Both are linear programs on windows of
time, solved for a few times (`search`) on classes of nodes and links that look alike (`views`).
"""
