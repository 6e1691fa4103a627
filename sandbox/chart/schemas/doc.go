// Package schemas turns what an API server says of its types (OpenAPI v3) into
// JSON schemas for kubeconform: one for each kind, complete in itself, and closed
// where the server knows no other field.
//
// It reads and writes bytes alone. What the server checks beyond types (CEL,
// defaults, admission) is in no schema.
package schemas
