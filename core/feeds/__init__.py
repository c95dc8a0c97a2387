"""What prices come from: rounds and their finder, pool feeds, Uniswap pools, and what moving one costs."""
