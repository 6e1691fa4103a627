// Package signal defines signals: which series one is read from, to which pod a
// series belongs, which values are plausible and how old they may be, and how
// several series become one number. It builds the PromQL and reads the answer
// into values with an age. It is pure: no clock, no network, no Kubernetes
// client. It never turns a missing value into a number, unless the rule
// declares one and the answer contains the evidence for it.
package signal
