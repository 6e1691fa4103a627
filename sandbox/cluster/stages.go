package cluster

import _ "embed"

// Annotations by which a story steers what KWOK does.
const (
	// AnnotationFake with the value "fake" makes KWOK manage a node.
	AnnotationFake = "kwok.x-k8s.io/node"

	// AnnotationReadyAfter on a pod, a duration ("20s"): it runs at once but
	// is ready only then, as a server that loads a model.
	AnnotationReadyAfter = "sandbox.gpuscale.io/ready-after"
)

//go:embed stages.yaml
var stages []byte
