// Package device computes the state of the libdcgm fake from what runs on a simulated node's GPUs:
// utilisation, memory, power, energy, temperature and clocks, for each GPU and each MIG instance. The values are
// plausible: they follow from a load by simple formulas and were compared with no GPU. It knows neither clusters
// nor files.
package device
