"""Evidence about row groups, and the plan that follows from it. False is a proof, true is a maybe."""
