// Package oci writes a multi-platform image as an OCI layout, from files alone:
// no Docker engine, no registry, the same bytes each time. It puts one layer
// over an empty image or over a base that was fetched before; it fetches nothing.
package oci
