// Package device computes the state of the libdcgm fake from what runs on a simulated node's GPUs:
// utilisation, memory, power, energy, temperature and clocks, for each GPU and each MIG instance. It owns the
// physics and knows neither clusters nor files.
package device
