package model

import (
	"fmt"
	"time"
)

// Spec describes a model in a server. Speeds are for a whole GPU. A slice has its share: compute slices count
// for prefill, memory slices for reading weights.
type Spec struct {
	Name       string        // the label model_name
	Weights    int64         // bytes
	KVPerToken int64         // bytes of KV cache a token
	MaxSeqs    int           // maximum number of sequences at the same time
	StepTokens int           // maximum tokens in one step, including prefill
	Prefill    float64       // prompt tokens a second, whole GPU
	ReadPerSec float64       // bytes of weights read a second, whole GPU
	Overhead   time.Duration // fixed time of one step, on any slice
	PerSeq     time.Duration // added to a step by each decoding sequence, whole GPU
}

// Chat13B is a chat model of 13 billion parameters in half precision on H100. The speeds are those of the
// hardware (989 TFLOP/s, 3.35 TB/s) at usual efficiencies of serving: 30 % in prefill, 60 % in decode. One
// 3g.40gb slice serves about one request a second of the Azure conversation mix.
func Chat13B() Spec {
	return Spec{
		Name:       "chat-13b",
		Weights:    26 << 30,
		KVPerToken: 819_200, // 40 layers × 5,120 × 2 × 2 bytes
		MaxSeqs:    32,
		StepTokens: 2048,
		Prefill:    11_400,
		ReadPerSec: 0.6 * 3.35e12,
		Overhead:   3 * time.Millisecond,
		PerSeq:     150 * time.Microsecond,
	}
}

// Slice is the hardware of one server.
type Slice struct {
	Compute, GPUCompute int   // compute slices, of the GPU's
	Memory, GPUMemory   int   // memory slices, of the GPU's
	Bytes               int64 // of memory
}

// engine is a Spec on a Slice.
type engine struct {
	spec     Spec
	kvTokens int           // KV cache in tokens
	step     time.Duration // fixed part of each step
	perSeq   time.Duration
	prefill  float64 // tokens a second
}

// memoryUse is vLLM's gpu_memory_utilization.
const memoryUse = 0.9

func newEngine(spec Spec, s Slice) (engine, error) {
	if s.Compute <= 0 || s.GPUCompute < s.Compute || s.Memory <= 0 || s.GPUMemory < s.Memory || s.Bytes <= 0 {
		return engine{}, fmt.Errorf("model %s: %+v is no slice of a GPU", spec.Name, s)
	}
	free := int64(memoryUse*float64(s.Bytes)) - spec.Weights
	kv := free / spec.KVPerToken
	if kv < 1 {
		return engine{}, fmt.Errorf("model %s: its weights (%d MiB) do not fit into %d MiB", spec.Name, spec.Weights>>20, s.Bytes>>20)
	}
	compute := float64(s.Compute) / float64(s.GPUCompute)
	memory := float64(s.Memory) / float64(s.GPUMemory)
	read := float64(spec.Weights) / (spec.ReadPerSec * memory)
	return engine{
		spec:     spec,
		kvTokens: int(kv),
		step:     spec.Overhead + seconds(read),
		perSeq:   time.Duration(float64(spec.PerSeq) / compute),
		prefill:  spec.Prefill * compute,
	}, nil
}

// duration is the time of a step with this many decoding sequences and prompt tokens.
func (e engine) duration(decoding, prompt int) time.Duration {
	return e.step + time.Duration(decoding)*e.perSeq + seconds(float64(prompt)/e.prefill)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
