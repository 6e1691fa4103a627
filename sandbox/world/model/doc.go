// Package model is a fake of a fleet of vLLM servers behind a gateway. It owns the arithmetic of serving
// (dispatch, continuous batching with chunked prefill, KV cache, model load) and the vLLM metric names. Its
// clock is traffic time, which its caller moves forward, faster than the wall clock if a story is compressed.
// It never connects to a cluster and never loses a request.
package model
