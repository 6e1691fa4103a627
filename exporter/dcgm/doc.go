// Package dcgm is the collect.Source over NVIDIA's DCGM: an embedded host
// engine or a remote one.
//
// It owns the connection to the host engine and the watches there. It turns DCGM's values
// into Readings without blanks and impossible numbers: of GPUs, MIG instances, NvSwitches,
// NVLinks, CPUs and cores. It counts each event of a GPU once over all connections. A part
// that DCGM refuses does not affect the others. It is the only package that knows go-dcgm.
// That library binds its symbols lazily, and a missing one ends the process, so each symbol
// is looked up before the first call. It never attributes a GPU to a pod, names a series,
// or keeps a value longer than until the next Read.
package dcgm
