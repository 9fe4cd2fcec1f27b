package handlerpb

// What informd and a handler agree on beside the service itself.
// docs/reference/handler-protocol.md repeats it for authors of handlers in other languages.
const (
	// ProtocolVersion is the version of go-plugin's handshake that goes with this package's
	// service.
	ProtocolVersion = 1
	// PluginName is the service's key in go-plugin's set of plugins.
	PluginName = "handler"

	// HealthService is the service name in requests to grpc.health.v1; it is go-plugin's choice.
	HealthService = "plugin"

	// CookieKey and CookieValue are an environment variable that informd sets for a handler. A
	// handler that does not find it was started by hand and can say so. It is no secret.
	CookieKey   = "INFORMD_HANDLER_COOKIE"
	CookieValue = "3b1c2f3c0c5e4f0f9a57c1e2d0a2f7c1"

	// EnvLogLevel names the environment variable that holds the least level that informd's log
	// shows: debug, info, warn or error. A handler that heeds it saves work; nothing else changes.
	EnvLogLevel = "INFORMD_LOG_LEVEL"
	// EnvStdoutFD names the environment variable that holds the number of an inherited file
	// descriptor, the standard output of informd itself. informd sets it for its log builtin only.
	EnvStdoutFD = "INFORMD_STDOUT_FD"

	// EnvCacheSocket names the environment variable that holds the address of cache.proto's
	// service, as unix:/PATH. informd sets it for handlers whose manifest has access.read.
	EnvCacheSocket = "INFORMD_CACHE_SOCKET"

	// MaxRequestBytes is the largest message that a handler must be able to receive. A large event
	// goes alone, and holds up to two objects of the size that a cluster allows.
	MaxRequestBytes = 64 << 20
	// MaxResponseBytes is the largest message that informd receives from a handler.
	MaxResponseBytes = 16 << 20
	// MaxDescriptionBytes and MaxProblemsBytes are the same for the responses of Describe and
	// Configure.
	MaxDescriptionBytes = 4 << 20
	MaxProblemsBytes    = 1 << 20

	// MaxBatchEvents and MaxBatchBytes bound one message of events, or of answers. What is larger
	// goes alone.
	MaxBatchEvents = 32
	MaxBatchBytes  = 1 << 20
	// DefaultWindowBytes and MaxWindowBytes are the default and the bound of
	// DescribeResponse.window_bytes.
	DefaultWindowBytes = 4 << 20
	MaxWindowBytes     = 64 << 20
	// MaxReasonBytes bounds the reason of a retry or reject. MaxNameBytes bounds a handler's name
	// and its version.
	MaxReasonBytes = 1 << 10
	MaxNameBytes   = 128
	// MaxSchemaBytes and MaxCapabilities bound what informd keeps of a DescribeResponse. It drops a
	// larger schema, and further capabilities.
	MaxSchemaBytes  = 1 << 20
	MaxCapabilities = 64
	// CapabilityBatches says that the events of one message cost the handler little more than one
	// event. It is the only capability that informd knows.
	CapabilityBatches = "batches"
	// DefaultConcurrency is how many events a handler works on at once if the operator does not say,
	// and DefaultBatchConcurrency is that number for a handler with CapabilityBatches.
	DefaultConcurrency      = 8
	DefaultBatchConcurrency = 64
	// MaxActions bounds the actions of one answer.
	MaxActions = 64

	// MaxGetKeys and MaxReadBytes bound one request to read the cache. MaxPageBytes and
	// MaxPageElements bound one page of an answer, unless a single element is larger.
	MaxGetKeys      = 200
	MaxReadBytes    = 64 << 10
	MaxPageBytes    = 256 << 10
	MaxPageElements = 1000
)
