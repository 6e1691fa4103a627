package collect

// Quiescer is a Source that can let go of cards, so that they can be
// repartitioned or reset.
type Quiescer interface {
	// Quiesce lets go of the cards with these UUIDs ("GPU-…") and of their
	// instances, and of no others: those of an earlier call that are not named
	// again are taken back. When it returns nil the source holds nothing of them,
	// and they are in no Reading until they are taken back.
	Quiesce(cards []string) error
}
