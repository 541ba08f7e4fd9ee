"""From which similarity on texts are near-duplicates: docs/choosing.md explains it to users."""

SIMILAR = 0.65  # Jaccard similarity of growing shingles
SIMILAR_SHORT = 0.6  # of pairs of characters: that of sentences of 17 characters that differ in two
# A pair found is right from here on: what sketches estimate strays by 0.03 to 0.04, of short texts more.
RIGHT, RIGHT_SHORT = 0.6, 0.5
