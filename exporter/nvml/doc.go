// Package nvml is the collect.Source over the driver's own library, NVML, for
// hosts without DCGM, and the driver's values per process, beside either
// source.
//
// It gives the subset of DCGM's fields that NVML has, under DCGM's field ids
// and in DCGM's units: see Fields. It owns the library's handles and its event
// set. go-nvml binds symbols lazily, and a missing one ends the process, so
// each is looked up before it is called. It never attributes a GPU to a pod and
// never keeps a value longer than until the next Read.
package nvml
