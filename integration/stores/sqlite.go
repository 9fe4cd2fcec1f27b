package main

import (
	"database/sql"
	"errors"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver
)

type sqliteStore struct{ db *sql.DB }

func openSQLite(dir string) (store, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "sqlite")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(1000)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS objects (key BLOB PRIMARY KEY, value BLOB NOT NULL)"); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return sqliteStore{db}, nil
}

func (s sqliteStore) write(batch []change) (err error) {
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	put, err := tx.Prepare("INSERT INTO objects VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value")
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	defer func() { err = errors.Join(err, put.Close()) }()
	for _, c := range batch {
		if _, err := put.Exec(c.key, c.value); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (s sqliteStore) each(f func(key, value []byte) error) (err error) {
	rows, err := s.db.Query("SELECT key, value FROM objects ORDER BY key")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var key, value sql.RawBytes
		if err := rows.Scan(&key, &value); err != nil {
			return err
		}
		if err := f(key, value); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s sqliteStore) close() error { return s.db.Close() }
