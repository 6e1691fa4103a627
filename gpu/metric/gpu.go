package metric

// The series that the exporter emits and that adapter, autoscaler, dashboards and
// report read.
var (
	GPUInfo = emit(Exporter, Gauge, Info, "gpu_info",
		`A GPU and what it is. mig is "true" in MIG mode, else "false". Always 1.`,
		LabelNode, LabelGPU, LabelGPUUUID, LabelModel, LabelPCIBusID, LabelMIG, LabelDriverVersion)
	GPUInstanceInfo = emit(Exporter, Gauge, Info, "gpu_instance_info",
		"A MIG instance and its placement; start and size in memory slices. Always 1.",
		LabelNode, LabelGPU, LabelGPUUUID, LabelGPUInstanceID, LabelProfile, LabelStart, LabelSize, LabelInstanceUUID)
	GPUHeld = emitOptional(Exporter, Gauge, Bool, "gpu_held",
		"1 for each container to which the GPU or instance is allocated.",
		[]string{LabelNode, LabelGPU, LabelGPUUUID, LabelNamespace, LabelPod, LabelContainer}, LabelGPUInstanceID, LabelProfile)
	GPUBusyRatio = emitOptional(Exporter, Gauge, Ratio, "gpu_busy_ratio",
		"Share of time in which the GPU computed, 0 to 1 of the whole GPU.",
		[]string{LabelNode, LabelGPU, LabelGPUUUID, LabelModel}, container()...)
	GPUInstanceBusyRatio = emitOptional(Exporter, Gauge, Ratio, "gpu_instance_busy_ratio",
		"Share of time in which the MIG instance computed, 0 to 1 of the instance.",
		[]string{LabelNode, LabelGPU, LabelGPUUUID, LabelGPUInstanceID, LabelProfile}, container()...)
	GPUShareRatio = emitOptional(Exporter, Gauge, Ratio, "gpu_share_ratio",
		"Busy ratio times the instance's part of the GPU's compute slices. Sums to at most 1 for a GPU.",
		[]string{LabelNode, LabelGPU, LabelGPUUUID}, append([]string{LabelModel, LabelGPUInstanceID, LabelProfile}, container()...)...)
	GPUMemoryUsedBytes = emitOptional(Exporter, Gauge, Bytes, "gpu_memory_used_bytes",
		"Memory in use on the GPU or MIG instance.",
		[]string{LabelNode, LabelGPU, LabelGPUUUID}, append([]string{LabelModel, LabelGPUInstanceID, LabelProfile}, container()...)...)
	GPUMemoryTotalBytes = emitOptional(Exporter, Gauge, Bytes, "gpu_memory_total_bytes",
		"Memory of the GPU or MIG instance.",
		[]string{LabelNode, LabelGPU, LabelGPUUUID}, append([]string{LabelModel, LabelGPUInstanceID, LabelProfile}, container()...)...)
	GPUPowerWatts = emit(Exporter, Gauge, Watts, "gpu_power_watts",
		"Power drawn, once for each GPU.", LabelNode, LabelGPU, LabelGPUUUID, LabelModel)
	GPUEnergyJoulesTotal = emit(Exporter, Counter, Joules, "gpu_energy_joules_total",
		"Energy drawn, once for each GPU: the driver's counter, continued where that restarts.",
		LabelNode, LabelGPU, LabelGPUUUID, LabelModel)
	GPUIdleSeconds = emitOptional(Exporter, Gauge, Seconds, "gpu_idle_seconds",
		"How long the GPU or instance has been allocated without computing.",
		[]string{LabelNode, LabelGPU, LabelGPUUUID, LabelNamespace, LabelPod}, LabelContainer, LabelGPUInstanceID, LabelProfile)
	GPUSampleAgeSeconds = emitOptional(Exporter, Gauge, Seconds, "gpu_sample_age_seconds",
		"Age of the newest value of the GPU or instance.",
		[]string{LabelNode, LabelGPU, LabelGPUUUID}, LabelGPUInstanceID)
	GPUAttributionAgeSeconds = emit(Exporter, Gauge, Seconds, "gpu_attribution_age_seconds",
		"Age of the map from GPUs and instances to the pods they are allocated to.", LabelNode)
	GPUHealthy = emit(Exporter, Gauge, Bool, "gpu_healthy",
		"1 while the GPU is healthy, 0 when it is not, for the reason given.",
		LabelNode, LabelGPU, LabelGPUUUID, LabelReason)
	GPUBusySecondsTotal = emitOptional(Exporter, Counter, Seconds, "gpu_busy_seconds_total",
		"Seconds of the GPU spent computing since the exporter began to watch it; for a MIG instance, its part of the GPU. The integral of gpu_share_ratio.",
		[]string{LabelNode, LabelGPU, LabelGPUUUID}, LabelModel, LabelGPUInstanceID, LabelProfile)
	GPUThrottleSecondsTotal = emit(Exporter, Counter, Seconds, "gpu_throttle_seconds_total",
		"Seconds in which the GPU's clocks were lowered, by reason, since the exporter began to watch it. Reasons overlap.",
		LabelNode, LabelGPU, LabelGPUUUID, LabelReason)
	GPUXIDErrorsTotal = emit(Exporter, Counter, None, "gpu_xid_errors_total",
		"XID errors of the GPU by code since the exporter began to watch it, each counted once.",
		LabelNode, LabelGPU, LabelGPUUUID, LabelXID)
)

// container are the labels of a series that names the container using the GPU.
func container() []string { return []string{LabelNamespace, LabelPod, LabelContainer} }
