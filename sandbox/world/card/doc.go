// Package card turns what runs on a simulated node's cards into the state of
// the libdcgm double: utilisation, memory, power, energy, temperature, clocks
// and XID errors, per card and per MIG instance. It owns the physics, as far
// as a sandbox needs any, and knows neither clusters nor files.
package card
