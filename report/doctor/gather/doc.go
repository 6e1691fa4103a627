// Package gather reads the facts of checks: with GET only, with the caller's rights, in
// pages and within bounds. What it may not or cannot read is recorded as missing.
package gather
