// Package hpa is the arithmetic of Kubernetes' HorizontalPodAutoscaler, as of
// 1.37, for metrics of type Pods, Object and External: from the metrics APIs'
// answers and the pods to a number of replicas, with every step in between. It
// has no clock and no client: the caller passes the time. Metrics of type
// Resource and ContainerResource are not computed here.
//
// It does what the controller does, oddities included: a differential test
// (sandbox/hpacalc) feeds random cases to both. Values of metrics are in
// thousandths, as in the controller.
package hpa
