// Package pack finds the layout of a GPU that serves the most demand, by evaluating
// every layout. Its input is tables, layouts and counts, never names, money or time.
package pack
