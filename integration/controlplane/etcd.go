package main

import (
	"fmt"
	"io"
	"net/url"

	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcdQuota is the size at which etcd refuses writes; its default of 2 GiB is below a million small
// objects.
const etcdQuota = 8 << 30

// startEtcd starts a cluster of one that listens on nothing but a socket inside DIR, which only its
// owner can enter. The caller waits for ReadyNotify.
func startEtcd(d *dir, log io.Writer) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Name = "controlplane"
	cfg.Dir = d.path("etcd")
	cfg.ListenClientUrls = []url.URL{{Scheme: "unix", Path: d.path("etcd.sock")}}
	// There are no peers; nobody uses the addresses that it advertises by default.
	cfg.ListenPeerUrls = nil
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = true
	cfg.QuotaBackendBytes = etcdQuota
	// Left 0, it warns of every request.
	cfg.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	encoder := zapcore.NewConsoleEncoder(logutil.DefaultZapLoggerConfig.EncoderConfig)
	core := zapcore.NewCore(encoder, zapcore.AddSync(log), zap.WarnLevel)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(core))
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	return e, nil
}
