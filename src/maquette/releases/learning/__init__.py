"""Release and learning, both ways: learners from releases, releases from learners, and marginals by learning f_D."""
