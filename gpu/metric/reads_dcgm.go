package metric

// Series of dcgm-exporter with pod attribution, and of our exporter under the same
// names. DCGM renamed these fields; its exporter follows with its own version.
var (
	DCGMEngineActive = Read{
		Name: "DCGM_FI_PROF_GR_ENGINE_ACTIVE", Type: Gauge, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "Share of time in which the GPU or MIG instance computed, 0 to 1.",
	}
	DCGMEngineActiveNew = Read{
		Name: "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", Type: Gauge, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "The new name of DCGM_FI_PROF_GR_ENGINE_ACTIVE.",
	}
	DCGMTensorActive = Read{
		Name: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Type: Gauge, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "Share of cycles in which the tensor pipe was active, 0 to 1.",
	}
	DCGMTensorActiveNew = Read{
		Name: "DCGM_FI_PROF_TENSOR_UTIL_RATIO", Type: Gauge, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "The new name of DCGM_FI_PROF_PIPE_TENSOR_ACTIVE.",
	}
	DCGMDRAMActive = Read{
		Name: "DCGM_FI_PROF_DRAM_ACTIVE", Type: Gauge, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "Share of cycles in which the memory interface moved data, 0 to 1.",
	}
	DCGMDRAMActiveNew = Read{
		Name: "DCGM_FI_PROF_DRAM_UTIL_RATIO", Type: Gauge, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "The new name of DCGM_FI_PROF_DRAM_ACTIVE.",
	}
	DCGMTemperature = Read{
		Name: "DCGM_FI_DEV_GPU_TEMP", Type: Gauge, Unit: Celsius, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "Temperature of the GPU.",
	}
	DCGMMemoryTemperature = Read{
		Name: "DCGM_FI_DEV_MEMORY_TEMP", Type: Gauge, Unit: Celsius, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "Temperature of the GPU's memory; 0 from GPUs that do not measure it.",
	}
	DCGMRowsUncorrectable = Read{
		Name: "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", Type: Counter, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "Rows of memory that were replaced for uncorrectable errors, over the GPU's life.",
	}
	DCGMRowsCorrectable = Read{
		Name: "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", Type: Counter, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "Rows of memory that were replaced for correctable errors, over the GPU's life.",
	}
	DCGMRowRemapFailure = Read{
		Name: "DCGM_FI_DEV_ROW_REMAP_FAILURE", Type: Gauge, Unit: Bool, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "1 where a row could not be replaced: the GPU has to be returned.",
	}
	DCGMDoubleBitErrors = Read{
		Name: "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", Type: Counter, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "Double-bit errors of the memory since the driver was loaded. Only where the counters file lists it.",
	}
	DCGMSingleBitErrors = Read{
		Name: "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", Type: Counter, Unit: None, Server: ServerDCGM, Labels: dcgmLabels(),
		Help: "Single-bit errors of the memory, each corrected, since the driver was loaded. Only where the counters file lists it.",
	}
)

func dcgmLabels() []string { return []string{LabelUUID, LabelGPUI} }

func dcgmReads() []Read {
	return []Read{DCGMEngineActive, DCGMEngineActiveNew, DCGMTensorActive, DCGMTensorActiveNew, DCGMDRAMActive, DCGMDRAMActiveNew,
		DCGMTemperature, DCGMMemoryTemperature, DCGMRowsUncorrectable, DCGMRowsCorrectable, DCGMRowRemapFailure, DCGMDoubleBitErrors, DCGMSingleBitErrors}
}
