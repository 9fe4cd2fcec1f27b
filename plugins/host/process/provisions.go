package process

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/informd/informd/plugins/host/cache"
	"github.com/informd/informd/plugins/host/confine"
)

// provisions are what is made for one process and removed after it. Fields are empty or nil until
// make gets that far.
type provisions struct {
	socketDir   string
	tempDir     string
	confinement *confine.Confinement
	cache       *cache.Server // nil if the process may read nothing
	serving     sync.WaitGroup
}

// make makes the directories, the confinement and the cache socket. The caller calls remove in any
// case.
func (v *provisions) make(
	command Command, s Surroundings, program string, log *slog.Logger,
) (err error) {
	// go-plugin gives its directory the same name.
	if v.socketDir, err = os.MkdirTemp(s.RunDir, "plugin-dir"); err != nil {
		return fmt.Errorf("make a directory for its sockets: %w", err)
	}
	if v.tempDir, err = makeTempDir(s.TempDir); err != nil {
		return err
	}
	own := v.own(command, program)
	if v.confinement, err = confine.Prepare(command.Confine, command.Name, own); err != nil {
		return err
	}
	if len(command.Read) > 0 {
		reader := cache.Reader{Handler: command.Name, Sources: command.Read, Counts: s.Reads}
		socket := filepath.Join(v.socketDir, cacheSocket)
		if v.cache, err = cache.Listen(socket, s.Cache, reader, log); err != nil {
			return err
		}
	}
	uid, gid, ok := v.confinement.Owner()
	if !ok {
		return nil
	}
	if v.cache != nil {
		if err := os.Chown(v.cache.Path(), uid, gid); err != nil {
			return fmt.Errorf("give a socket to the user that the handler runs as: %w", err)
		}
	}
	return giveTo(uid, gid, v.socketDir, v.tempDir)
}

// cacheSocket stands beside the process's own sockets, to whose names go-plugin adds a number.
const cacheSocket = "cache"

// own returns what the process needs of the file system to be a handler at all. Its working
// directory is not part of it: that is the manifest's folder, which may be anybody's home.
func (v *provisions) own(command Command, program string) confine.Own {
	return confine.Own{
		Read: []string{program}, Write: v.directories(), Connect: len(command.Read) > 0,
	}
}

// directories returns the directories that belong to the process.
func (v *provisions) directories() []string { return []string{v.socketDir, v.tempDir} }

// serve answers reads of the cache from descendants of the process ancestor, until remove.
func (v *provisions) serve(ancestor int) {
	if v.cache != nil {
		v.serving.Go(func() { v.cache.Serve(ancestor) })
	}
}

// remove removes everything, once the process is gone.
func (v *provisions) remove() error {
	v.cache.Close()
	v.serving.Wait()
	return errors.Join(removeDirs(v.directories()...), v.confinement.Close())
}
