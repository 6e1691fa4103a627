package sample

import "time"

// Point is a number at the time it was taken.
type Point struct {
	At     time.Time
	Number float64
}
