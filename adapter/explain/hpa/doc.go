// Package hpa is the arithmetic of Kubernetes' HorizontalPodAutoscaler, as of
// 1.37, for metrics of type Pods, Object and External: from what the metrics
// APIs answered and which pods there are to a number of replicas, with every
// step in between told. It has no clock and no client: who calls says what time
// it is. Metrics of type Resource and ContainerResource are not computed here.
//
// It does what the controller does, its oddities included: a differential test
// (sandbox/hpacalc) feeds random cases to both. Numbers of metrics are in
// thousandths, as in the controller.
package hpa
