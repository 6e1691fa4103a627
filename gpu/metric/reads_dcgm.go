package metric

// Series of dcgm-exporter with pod attribution, and of our exporter under the same
// names. DCGM 4.6 renamed these fields; dcgm-exporter's page follows from 4.9.0 on.
var (
	DCGMEngineActive = read(ServerDCGM, Gauge, None, "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
		"Share of time in which the GPU or MIG instance computed, 0 to 1.", dcgmLabels()...)
	DCGMEngineActiveNew = read(ServerDCGM, Gauge, None, "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
		"The new name of DCGM_FI_PROF_GR_ENGINE_ACTIVE.", dcgmLabels()...)
	DCGMTensorActive = read(ServerDCGM, Gauge, None, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
		"Share of cycles in which the tensor pipe was active, 0 to 1.", dcgmLabels()...)
	DCGMTensorActiveNew = read(ServerDCGM, Gauge, None, "DCGM_FI_PROF_TENSOR_UTIL_RATIO",
		"The new name of DCGM_FI_PROF_PIPE_TENSOR_ACTIVE.", dcgmLabels()...)
	DCGMDRAMActive = read(ServerDCGM, Gauge, None, "DCGM_FI_PROF_DRAM_ACTIVE",
		"Share of cycles in which the memory interface moved data, 0 to 1.", dcgmLabels()...)
	DCGMDRAMActiveNew = read(ServerDCGM, Gauge, None, "DCGM_FI_PROF_DRAM_UTIL_RATIO",
		"The new name of DCGM_FI_PROF_DRAM_ACTIVE.", dcgmLabels()...)
	DCGMTemperature = read(ServerDCGM, Gauge, Celsius, "DCGM_FI_DEV_GPU_TEMP",
		"Temperature of the GPU.", dcgmLabels()...)
	DCGMTemperatureNew = read(ServerDCGM, Gauge, Celsius, "DCGM_FI_DEV_GPU_TEMP_CELSIUS",
		"The new name of DCGM_FI_DEV_GPU_TEMP.", dcgmLabels()...)
	DCGMMemoryTemperature = read(ServerDCGM, Gauge, Celsius, "DCGM_FI_DEV_MEMORY_TEMP",
		"Temperature of the GPU's memory; 0 from GPUs that do not measure it.", dcgmLabels()...)
	DCGMMemoryTemperatureNew = read(ServerDCGM, Gauge, Celsius, "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS",
		"The new name of DCGM_FI_DEV_MEMORY_TEMP.", dcgmLabels()...)
	DCGMRowsUncorrectable = read(ServerDCGM, Counter, None, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
		"Rows of memory that were replaced for uncorrectable errors, over the GPU's life.", dcgmLabels()...)
	DCGMRowsUncorrectableNew = read(ServerDCGM, Counter, None, "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL",
		"The new name of DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS.", dcgmLabels()...)
	DCGMRowsCorrectable = read(ServerDCGM, Counter, None, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
		"Rows of memory that were replaced for correctable errors, over the GPU's life.", dcgmLabels()...)
	DCGMRowsCorrectableNew = read(ServerDCGM, Counter, None, "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL",
		"The new name of DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS.", dcgmLabels()...)
	DCGMRowRemapFailure = read(ServerDCGM, Gauge, Bool, "DCGM_FI_DEV_ROW_REMAP_FAILURE",
		"1 where a row could not be replaced: the GPU has to be returned.", dcgmLabels()...)
	DCGMRowRemapFailureNew = read(ServerDCGM, Gauge, Bool, "DCGM_FI_DEV_ROW_REMAP_FAILED",
		"The new name of DCGM_FI_DEV_ROW_REMAP_FAILURE.", dcgmLabels()...)
	DCGMDoubleBitErrors = read(ServerDCGM, Counter, None, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
		"Double-bit errors of the memory since the driver was loaded. Only where the counters file lists it.", dcgmLabels()...)
	DCGMSingleBitErrors = read(ServerDCGM, Counter, None, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
		"Single-bit errors of the memory, each corrected, since the driver was loaded. Only where the counters file lists it.", dcgmLabels()...)
)

func dcgmLabels() []string { return []string{LabelUUID, LabelGPUI} }
