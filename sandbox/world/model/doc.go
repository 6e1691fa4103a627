// Package model is the fake of a fleet of vLLM servers behind a gateway. It
// owns the arithmetic of serving (dispatch, continuous batching with chunked
// prefill, KV cache, model load) and the vLLM metric names. Its clock is
// traffic time: an offset that its caller moves forward, faster than the wall
// clock when a story is compressed. It never talks to a cluster and never
// loses a request.
package model
