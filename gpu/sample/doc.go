// Package sample is a measured value as the house trusts it: a number, its
// age, and whether it is known at all. No function here turns a missing value
// into a number.
package sample
