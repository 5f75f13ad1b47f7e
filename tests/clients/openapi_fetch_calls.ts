// Calls of openapi-fetch by the types that openapi-typescript makes of /openapi.json. `tsc --strict` compiles them, so a
// field without a type, or an option of another type, is an error before anything runs.

import createClient from 'openapi-fetch';
import type { components, paths } from './regard.js';

declare const process: { argv: string[]; exitCode: number };

type Label = components['schemas']['Label'];

const DATE = '3/23/21';
const [, , call, service] = process.argv;
const { url, images, seq2seq, embeddings, ranker, picture } = JSON.parse(service!) as Record<string, string>;
const client = createClient<paths, `application/${string}json`>({ baseUrl: url! });

function check(right: boolean, what: string): void {
  if (!right) throw new Error(what);
}

const CALLS = {
  async classify(): Promise<void> {
    const { data, error } = await client.POST('/v1/models/{model}/classify', {
      params: { path: { model: images! } },
      body: { images: [picture!], top_k: 2 },
    });
    if (error) throw new Error(error.detail);
    const labels: Label[] = data.results[0]!.labels;
    check(labels.length === 2 && labels[0]!.label === '7', 'labels');
    check((labels[0]!.probability ?? 0) > 0.5, 'probability');
  },

  async generate(): Promise<void> {
    const { data, error } = await client.POST('/v1/models/{model}/generate', {
      params: { path: { model: seq2seq! } },
      body: { inputs: [DATE], alternatives: 2, attention: { kind: 'cross', hard: true } },
    });
    if (error) throw new Error(error.detail);
    const result = data.results[0]!;
    const reason: 'stop' | 'length' = result.finish_reason;
    check(result.text === '2021-03-23' && reason === 'stop', 'text');
    check(result.tokens[0]!.alternatives?.[0]?.token === result.tokens[0]!.token, 'alternatives');
    const span: number[] | null | undefined = result.attention?.tokens.source?.[0]?.span;
    check(span?.[1] === 1, 'span');
    const map = result.attention?.maps[0];
    check(map?.aligned?.[0]?.length === map?.shape[1], 'aligned');
  },

  async embed(): Promise<void> {
    const { data, error } = await client.POST('/v1/models/{model}/embed', {
      params: { path: { model: embeddings! } },
      body: { inputs: ['a cat', 'a dog'] },
    });
    if (error) throw new Error(error.detail);
    const vectors: number[][] = data.results.map((result) => result.embedding);
    check(vectors.length === 2 && vectors[0]!.length === vectors[1]!.length, 'vectors');
  },

  async rerank(): Promise<void> {
    const documents = ['2021-05-23', { text: '2021-03-23' }];
    const { data, error } = await client.POST('/v2/rerank', { body: { model: ranker!, query: DATE, documents } });
    if (error) throw new Error(error.message);
    const best: number = data.results[0]!.relevance_score;
    check(data.results[0]!.index === 1 && best > 0.9 && data.usage.total_tokens > 0, 'results');
    const pairs = await client.POST('/score', { body: { model: ranker!, text_1: DATE, text_2: ['2021-03-23'] } });
    check(pairs.data?.data[0]?.score === best, 'score');
  },

  async attention(): Promise<void> {
    const { data, error } = await client.POST('/v1/models/{model}/attention', {
      params: { path: { model: images! } },
      body: { images: [picture!], attention: { method: 'libra', diagnostics: true, evaluate: ['deletion'] } },
    });
    if (error) throw new Error(error.detail);
    const { maps, tokens, image, diagnostics, evaluation } = data.results[0]!.attention;
    check(tokens.grid?.rows === 7 && (image?.box.right ?? 0) > 0, 'grid');
    check(maps[0]!.target?.label === '7' && typeof maps[0]!.conserved?.score === 'number', 'conserved');
    check((diagnostics?.[0]?.max_entropy ?? 0) > 0, 'diagnostics');
    check((evaluation?.curves?.[0]?.random.area ?? 0) > 0, 'curves');
    const again = await client.GET('/v1/attention/{id}', {
      params: { path: { id: data.id }, query: { method: 'rollout', encoding: 'base64' } },
    });
    check(typeof again.data?.results[0]?.attention.maps[0]?.values === 'string', 'values');
  },

  async models(): Promise<void> {
    const { data } = await client.GET('/v1/models');
    const found = data?.models.find((model) => model.name === images);
    check(found?.attention.kinds.encoder?.grid?.rows === 7 && found.task === 'image-classification', 'model');
    check(found !== undefined && 'height' in found.inputs && found.inputs.height === 28, 'inputs');
  },

  async problem(): Promise<void> {
    const { error, response } = await client.POST('/v1/models/{model}/generate', {
      params: { path: { model: seq2seq! } },
      body: { inputs: DATE, top_k: -1 },
    });
    check(response.status === 422 && error?.status === 422 && error.errors?.[0]?.loc === 'top_k', 'problem');
  },
};

// Never called: each line must be refused by the compiler.
export async function refused(): Promise<void> {
  const params = { path: { model: 'digits' } };
  // @ts-expect-error it is a number
  await client.POST('/v1/models/{model}/classify', { params, body: { inputs: 'a', top_k: 'one' } });
  // @ts-expect-error there is no such method
  await client.POST('/v1/models/{model}/attention', { params, body: { inputs: 'a', attention: { method: 'other' } } });
  const { data } = await client.POST('/v1/models/{model}/classify', { params, body: { inputs: 'a' } });
  // @ts-expect-error an answer has no such field
  check(data?.results[0]?.labels[0]?.chance === 1, 'chance');
}

CALLS[call as keyof typeof CALLS]().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
