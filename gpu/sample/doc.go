// Package sample is a measured value: a number, its age, and whether it is known
// at all. No function here turns a missing value into a number.
package sample
