// Package top says who holds which card and slice now, and whether they use it. It
// reads vectors and lays out tables; it asks nobody.
package top
