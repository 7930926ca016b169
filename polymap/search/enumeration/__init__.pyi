from polymap.search.enumeration.trees import ExhaustiveResult as ExhaustiveResult, Walking as Walking
