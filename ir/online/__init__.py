"""The online rewrite: chains of reductions over one axis become folds, by an algebraic rule (`rewrite.online`)."""
