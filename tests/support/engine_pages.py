"""Pages of serving engines, in the shape in which their current versions write them."""

from dataclasses import replace

from rightslice.ledger.rows import EngineHour

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="Qwen/Qwen3-8B"}} {running}
vllm:num_requests_waiting{{engine="0",model_name="Qwen/Qwen3-8B"}} {waiting}
vllm:kv_cache_usage_perc{{engine="0",model_name="Qwen/Qwen3-8B"}} {kv}
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{{engine="0",model_name="Qwen/Qwen3-8B"}} {preempted}
vllm:num_preemptions_created{{engine="0",model_name="Qwen/Qwen3-8B"}} 1.7e+09
vllm:request_success_total{{engine="0",finished_reason="stop",model_name="Qwen/Qwen3-8B"}} {done}
vllm:request_success_total{{engine="0",finished_reason="abort",model_name="Qwen/Qwen3-8B"}} 0.0
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{{engine="0",le="0.5",model_name="Qwen/Qwen3-8B"}} {fast}
vllm:e2e_request_latency_seconds_bucket{{engine="0",le="1.0",model_name="Qwen/Qwen3-8B"}} {done}
vllm:e2e_request_latency_seconds_bucket{{engine="0",le="+Inf",model_name="Qwen/Qwen3-8B"}} {done}
vllm:e2e_request_latency_seconds_count{{engine="0",model_name="Qwen/Qwen3-8B"}} {done}
vllm:e2e_request_latency_seconds_sum{{engine="0",model_name="Qwen/Qwen3-8B"}} 1234.5
vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.1",model_name="Qwen/Qwen3-8B"}} {done}
vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf",model_name="Qwen/Qwen3-8B"}} {done}
vllm:cache_config_info{{block_size="16",cache_dtype="auto",enable_prefix_caching="True",\
engine="0",gpu_memory_utilization="0.9",num_gpu_blocks="2000",num_gpu_blocks_override="None"}} 1.0
process_start_time_seconds {started}
"""
SGLANG = """\
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 3.0
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="1"} 3.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 2.0
sglang:token_usage{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 0.28
sglang:max_total_num_tokens{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 471258.0
sglang:max_total_num_tokens{engine_type="unified",model_name="m",pp_rank="0",tp_rank="1"} 471258.0
sglang:num_requests_total{model_name="m"} 7.0
"""
TGI = """\
# TYPE tgi_queue_size gauge
tgi_queue_size 4
# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 9
# TYPE tgi_request_count counter
tgi_request_count 40
# TYPE tgi_request_duration histogram
tgi_request_duration_bucket{le="0.1"} 0
tgi_request_duration_bucket{le="+Inf"} 40
"""
TRITON = """\
nv_inference_request_success{model="ensemble",version="1"} 50
nv_inference_request_success{model="preprocessing",version="1"} 50
nv_inference_request_success{model="tensorrt_llm",version="1"} 50
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 1
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 6
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",\
version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 624
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="free",model="tensorrt_llm",version="1"} 5616
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 6240
nv_inference_request_summary_us{model="ensemble",version="1",quantile="0.99"} 250000
nv_inference_request_summary_us{model="ensemble",version="1",quantile="0.5"} NaN
"""


def vllm(
    *,
    running: float = 1,
    waiting: float = 0,
    kv: float = 0.1,
    done: float = 0,
    fast: float | None = None,
    preempted: float = 0,
    started: float = 1_000.0,
) -> str:
    """A page of vLLM, after so many requests, of which `fast` took no more than half a second."""
    return VLLM.format(
        running=running,
        waiting=waiting,
        kv=kv,
        done=done,
        fast=done if fast is None else fast,
        preempted=preempted,
        started=started,
    )


def rounded(row: EngineHour) -> EngineHour:
    """Leave out the last digits of floats, which depend on the order of sums."""

    def told(value: float | None) -> float | None:
        return None if value is None else round(value, 6)

    return replace(
        row,
        request_count=told(row.request_count),
        preemption_count=told(row.preemption_count),
        request_p99_seconds=told(row.request_p99_seconds),
        first_token_p99_seconds=told(row.first_token_p99_seconds),
    )
