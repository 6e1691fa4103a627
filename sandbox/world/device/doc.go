// Package device turns what runs on a simulated node's GPUs into the state of
// the libdcgm fake: utilisation, memory, power, energy, temperature and clocks,
// per GPU and per MIG instance. It owns the physics
// and knows neither clusters nor files.
package device
