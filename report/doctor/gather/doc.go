// Package gather reads the facts that checks judge: with GET and nothing else, with
// the rights of whoever asks, a page at a time and never without a bound. What it may
// not or cannot read it notes, and goes on.
package gather
