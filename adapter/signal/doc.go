// Package signal says what a signal is: which series it is read from, to which
// pod a series belongs, which values are believable and how old they may be,
// and how several series become one number. It builds the PromQL and turns
// the answer into values with an age. It is pure: no clock, no network, no
// Kubernetes client. It never turns a missing value into a number, unless the
// rule declares which and the answer holds the evidence that it takes.
package signal
