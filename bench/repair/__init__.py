"""A gang of hundreds of machines, of which one in a hundred is bad, played in virtual time: does it start within its deadline?"""
