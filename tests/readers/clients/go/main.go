// Reads tables with Iceberg's Go library. What it is asked and answers is in protocol.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	_ "github.com/apache/iceberg-go/io/gocloud/s3"
)

type settings struct {
	URL string `json:"url"`
}

type request struct {
	Table string `json:"table"`
	Path  string `json:"path"`
}

type answer struct {
	Count int64  `json:"count"`
	Error string `json:"error,omitempty"`
}

// read counts the rows of a table and writes them as an Arrow stream.
func read(ctx context.Context, live *rest.Catalog, table string, out io.Writer) (int64, error) {
	loaded, err := live.LoadTable(ctx, catalog.ToIdentifier("default", table))
	if err != nil {
		return 0, err
	}
	schema, batches, err := loaded.Scan().ToArrowRecords(ctx)
	if err != nil {
		return 0, err
	}
	writer := ipc.NewWriter(out, ipc.WithSchema(schema))
	count := int64(0)
	for batch, err := range batches {
		if err != nil {
			return 0, err
		}
		count += batch.NumRows()
		if err := writer.Write(batch); err != nil {
			return 0, err
		}
		batch.Release()
	}
	return count, writer.Close()
}

func reply(ctx context.Context, live *rest.Catalog, asked request) (int64, error) {
	if asked.Path == "" {
		return read(ctx, live, asked.Table, io.Discard)
	}
	file, err := os.Create(asked.Path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return read(ctx, live, asked.Table, file)
}

func main() {
	ctx := context.Background()
	var told settings
	if err := json.Unmarshal([]byte(os.Args[1]), &told); err != nil {
		panic(err)
	}
	live, err := rest.NewCatalog(ctx, "live", told.URL+"/iceberg")
	if err != nil {
		panic(err)
	}
	answers := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		count, err := reply(ctx, live, asked)
		found := answer{Count: count}
		if err != nil {
			found.Error = err.Error()
		}
		if err := answers.Encode(found); err != nil {
			panic(err)
		}
	}
}
