//! A natural cubic spline on equidistant nodes, fitted to points by penalised least squares.
//!
//! The curve minimises the squared errors plus `p` times the integral of the squared second
//! derivative, where `p` is relative to the size of the two terms. Written in the values at the
//! nodes, as the definition is, the normal equations are full. Here the unknowns are the
//! coefficients of cubic B-splines instead, which span the same curves: every point touches four
//! of them, so the equations have three side diagonals and cost a few multiplications per point
//! and node.

use cellpace_base::math::pow10;

/// Diagonal and three diagonals above it of a symmetric matrix, row by row.
type Band = Vec<[f64; 4]>;

/// How many nodes away the natural spline that is 1 at a node and 0 at the others has died out:
/// it loses a factor of 3.7 from node to node, so what is cut off is below 1e-14.
const REACH: usize = 24;

/// The round-off guard on the diagonal, relative to its size (docs/spec/verus.md 8.2).
const GUARD: f64 = 5e-15;

/// The fewest nodes a fit makes sense with.
pub(super) const MIN_NODES: usize = 5;

/// The curve and the buffers it is fitted in, which are kept from fit to fit.
#[derive(Debug, Clone, Default)]
pub(super) struct Spline {
    /// Abscissa of the first node.
    first: f64,
    /// Distance of the nodes.
    step: f64,
    /// Coefficients of the B-splines, with one more at each end.
    coefficients: Vec<f64>,
    /// Data term of the normal equations, then their factor.
    normal: Band,
    /// Curvature term, which depends on the number of nodes alone.
    curvature: Band,
    /// The largest entry that it would have on the diagonal in node values.
    bend: f64,
    /// Right-hand side.
    right: Vec<f64>,
    /// The weight of the curvature term in the last fit.
    #[cfg(test)]
    pub(super) penalty: f64,
}

impl Spline {
    /// Fits the curve on `nodes` nodes (at least [`MIN_NODES`]) to `points`, abscissas rising,
    /// with a penalty of 10^`rho`. False, and an unusable curve, when there are no points or the
    /// equations have no stable solution.
    pub(super) fn fit(
        &mut self,
        points: impl Iterator<Item = (f64, f64)> + Clone,
        nodes: usize,
        rho: f64,
    ) -> bool {
        let Some(scale) = PointScale::of(points.clone()) else { return false };
        let nodes = nodes.max(MIN_NODES);
        if scale.last <= scale.first {
            self.make_constant(&scale, nodes);
            return true;
        }
        self.first = scale.first;
        self.step = (scale.last - scale.first) / (nodes - 1) as f64;
        self.sum_up(points, &scale, nodes);
        self.build_curvature(nodes);
        self.add_penalty(rho);
        if !factor(&mut self.normal) {
            return false;
        }
        solve(&self.normal, &mut self.right);
        self.take_solution(&scale);
        true
    }

    /// The value at `x`; beyond the nodes the curve goes on as a straight line.
    pub(super) fn at(&self, x: f64) -> f64 {
        let nodes = self.coefficients.len() - 2;
        let u = (x - self.first) / self.step;
        if u <= 0.0 {
            // The natural end makes the outer coefficients equidistant: their difference is the
            // slope, and the coefficient at the node its value.
            return self.coefficients[1] + u * (self.coefficients[2] - self.coefficients[1]);
        }
        if u >= (nodes - 1) as f64 {
            let end = self.coefficients[nodes];
            return end + (u - (nodes - 1) as f64) * (end - self.coefficients[nodes - 1]);
        }
        let interval = (u as usize).min(nodes - 2);
        let weights = cubic_weights(u - interval as f64);
        let near = &self.coefficients[interval..interval + 4];
        weights.iter().zip(near).map(|(weight, coefficient)| weight * coefficient).sum()
    }

    /// The slope at and beyond the last node.
    pub(super) fn end_slope(&self) -> f64 {
        let nodes = self.coefficients.len() - 2;
        (self.coefficients[nodes] - self.coefficients[nodes - 1]) / self.step
    }

    /// The nodes of the last fit.
    pub(super) fn nodes(&self) -> usize {
        self.coefficients.len().saturating_sub(2)
    }

    /// One abscissa: after scaling its ordinate is zero, so the solution is a constant.
    fn make_constant(&mut self, scale: &PointScale, nodes: usize) {
        self.first = scale.first / 2.0;
        self.step = (scale.first / 2.0).max(1.0) / (nodes - 1) as f64;
        self.coefficients.clear();
        self.coefficients.resize(nodes + 2, scale.mean);
    }

    /// The data term G'G and the right-hand side G'y.
    fn sum_up(
        &mut self,
        points: impl Iterator<Item = (f64, f64)>,
        scale: &PointScale,
        nodes: usize,
    ) {
        self.normal.clear();
        self.normal.resize(nodes, [0.0; 4]);
        self.right.clear();
        self.right.resize(nodes, 0.0);
        for (x, y) in points {
            let y = (y - scale.mean) / scale.spread;
            let row = BandRow::at((x - self.first) / self.step, nodes);
            for i in 0..4 {
                self.right[row.base + i] += row.weights[i] * y;
                for j in i..4 {
                    self.normal[row.base + i][j - i] += row.weights[i] * row.weights[j];
                }
            }
        }
    }

    /// The integral of the squared second derivative over [-1, 1] as a quadratic form of the
    /// coefficients. The second derivative is linear between nodes, zero at both ends, and at an
    /// inner node the second difference of the coefficients over the squared node distance.
    fn build_curvature(&mut self, nodes: usize) {
        const DIFFERENCE: [f64; 3] = [1.0, -2.0, 1.0];
        if self.curvature.len() == nodes {
            return;
        }
        let step = 2.0 / (nodes - 1) as f64;
        let scale = step / step.powi(4);
        self.curvature.clear();
        self.curvature.resize(nodes, [0.0; 4]);
        for node in 1..nodes - 1 {
            for (i, left) in DIFFERENCE.iter().enumerate() {
                for (j, right) in DIFFERENCE.iter().enumerate() {
                    let product = scale * left * right;
                    if j >= i {
                        self.curvature[node - 1 + i][j - i] += product * 2.0 / 3.0;
                    }
                    // The neighbour's difference starts one further; both orders of the pair
                    // fall on the same entry of the stored triangle except on the diagonal.
                    if node + 2 < nodes {
                        let (row, column) = (node - 1 + i, node + j);
                        let (low, high) = (row.min(column), row.max(column));
                        let both = if low == high { 2.0 } else { 1.0 };
                        self.curvature[low][high - low] += product * both / 6.0;
                    }
                }
            }
        }
        self.bend = largest_in_node_values(&self.curvature);
    }

    /// Adds penalty and round-off guard to the data term. Both are relative to the largest
    /// diagonal entries that the equations in node values would have.
    fn add_penalty(&mut self, rho: f64) {
        let data = largest_in_node_values(&self.normal);
        let penalty = pow10(rho) * data / self.bend;
        let guard = data * (1.0 + penalty) * GUARD;
        #[cfg(test)]
        {
            self.penalty = penalty;
        }
        for (row, curvature) in self.normal.iter_mut().zip(&self.curvature) {
            for (entry, bend) in row.iter_mut().zip(curvature) {
                *entry += penalty * bend;
            }
            row[0] += guard;
        }
    }

    fn take_solution(&mut self, scale: &PointScale) {
        let nodes = self.right.len();
        self.coefficients.clear();
        self.coefficients.push(0.0);
        self.coefficients.extend(self.right.iter().map(|c| scale.mean + scale.spread * c));
        self.coefficients.push(0.0);
        // Natural ends: no second difference at the first and last node.
        self.coefficients[0] = 2.0 * self.coefficients[1] - self.coefficients[2];
        self.coefficients[nodes + 1] =
            2.0 * self.coefficients[nodes] - self.coefficients[nodes - 1];
    }
}

/// Where the points lie.
struct PointScale {
    first: f64,
    last: f64,
    mean: f64,
    spread: f64,
}

impl PointScale {
    fn of(points: impl Iterator<Item = (f64, f64)> + Clone) -> Option<Self> {
        let (first, _) = points.clone().next()?;
        let (mut count, mut sum, mut last) = (0.0, 0.0, first);
        for (x, y) in points.clone() {
            count += 1.0;
            sum += y;
            last = x;
        }
        let mean = sum / count;
        let squares: f64 = points.map(|(_, y)| (y - mean) * (y - mean)).sum();
        let spread = match (squares / count).sqrt() {
            spread if spread > 0.0 => spread,
            _ if mean != 0.0 => mean,
            _ => 1.0,
        };
        Some(Self { first, last, mean, spread })
    }
}

/// The weights of the four coefficients around the position `t` in [0, 1] of an interval.
fn cubic_weights(t: f64) -> [f64; 4] {
    let back = 1.0 - t;
    [
        back * back * back / 6.0,
        ((3.0 * t - 6.0) * t * t + 4.0) / 6.0,
        ((3.0 * back - 6.0) * back * back + 4.0) / 6.0,
        t * t * t / 6.0,
    ]
}

/// The coefficients that one point touches: the coefficients beyond the ends are replaced by
/// what the natural ends make of them.
struct BandRow {
    base: usize,
    weights: [f64; 4],
}

impl BandRow {
    fn at(u: f64, nodes: usize) -> Self {
        let interval = (u.max(0.0) as usize).min(nodes - 2);
        let [a, b, c, d] = cubic_weights(u - interval as f64);
        if interval == 0 {
            return Self { base: 0, weights: [b + 2.0 * a, c - a, d, 0.0] };
        }
        if interval == nodes - 2 {
            return Self { base: nodes - 4, weights: [0.0, a, b - d, c + 2.0 * d] };
        }
        Self { base: interval - 1, weights: [a, b, c, d] }
    }
}

/// The coefficients of the natural spline that is 1 at one node and 0 at all others, as far as
/// they are not negligible.
struct Cardinal {
    base: usize,
    len: usize,
    /// There are zeros behind them, as many as a band has diagonals above its own.
    coefficients: [f64; 2 * REACH + 4],
}

/// The largest diagonal entry that a matrix of coefficients would have in node values.
fn largest_in_node_values(matrix: &Band) -> f64 {
    let nodes = matrix.len();
    let entries = (0..nodes).map(|node| Cardinal::at(node, nodes).square(matrix));
    entries.fold(0.0, f64::max)
}

impl Cardinal {
    /// Solves value(i) = (c[i-1] + 4 c[i] + c[i+1]) / 6 with value(first) = c[first] and
    /// value(last) = c[last] by elimination forwards and back.
    fn at(node: usize, nodes: usize) -> Self {
        let base = node.saturating_sub(REACH);
        let end = (node + REACH + 1).min(nodes);
        let len = end - base;
        let mut coefficients = [0.0; 2 * REACH + 4];
        let mut upper = [0.0; 2 * REACH + 1];
        let (mut before, mut upper_before) = (0.0, 0.0);
        for i in 0..len {
            let at_end = base + i == 0 || base + i == nodes - 1;
            let (side, centre) = if at_end { (0.0, 1.0) } else { (1.0 / 6.0, 4.0 / 6.0) };
            let value = if base + i == node { 1.0 } else { 0.0 };
            let pivot = centre - side * upper_before;
            upper[i] = side / pivot;
            coefficients[i] = (value - side * before) / pivot;
            (before, upper_before) = (coefficients[i], upper[i]);
        }
        for i in (0..len - 1).rev() {
            coefficients[i] -= upper[i] * coefficients[i + 1];
        }
        Self { base, len, coefficients }
    }

    /// The quadratic form of a matrix with this spline: its diagonal entry in node values.
    fn square(&self, matrix: &Band) -> f64 {
        let rows = &matrix[self.base..self.base + self.len];
        let mut sum = 0.0;
        for (row, c) in rows.iter().zip(self.coefficients.windows(4)) {
            let above = row[1] * c[1] + row[2] * c[2] + row[3] * c[3];
            sum += c[0] * (row[0] * c[0] + 2.0 * above);
        }
        sum
    }
}

/// Cholesky factor in place: entry `[j][i - j]` becomes row i, column j of the lower factor.
fn factor(matrix: &mut Band) -> bool {
    let n = matrix.len();
    for j in 0..n {
        for i in j..(j + 4).min(n) {
            let mut sum = matrix[j][i - j];
            for k in i.saturating_sub(3)..j {
                sum -= matrix[k][i - k] * matrix[k][j - k];
            }
            if i > j {
                matrix[j][i - j] = sum / matrix[j][0];
                continue;
            }
            if !(sum > 0.0 && sum.is_finite()) {
                return false;
            }
            matrix[j][0] = sum.sqrt();
        }
    }
    true
}

fn solve(lower: &Band, right: &mut [f64]) {
    let n = right.len();
    for i in 0..n {
        let known: f64 = (i.saturating_sub(3)..i).map(|k| lower[k][i - k] * right[k]).sum();
        right[i] = (right[i] - known) / lower[i][0];
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..(i + 4).min(n)).map(|k| lower[i][k - i] * right[k]).sum();
        right[i] = (right[i] - known) / lower[i][0];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fitted(points: &[(f64, f64)], nodes: usize, rho: f64) -> Spline {
        let mut spline = Spline::default();
        assert!(spline.fit(points.iter().copied(), nodes, rho));
        spline
    }

    fn knee(last: u32, at: f64, slope: f64) -> Vec<(f64, f64)> {
        (1..=last).map(f64::from).map(|w| (w, 30.0 + slope * (w - at).max(0.0))).collect()
    }

    fn assert_near(spline: &Spline, expected: &[(f64, f64)], tolerance: f64) {
        for &(x, y) in expected {
            let found = spline.at(x);
            assert!((found - y).abs() < tolerance, "f({x}) = {found}, not {y}");
        }
    }

    #[test]
    fn verus_t7_a_line_is_reproduced_and_continued() {
        let line: Vec<_> = (1..=75).map(f64::from).map(|w| (w, 20.0 + 0.5 * w)).collect();
        let spline = fitted(&line, 5, 2.0);
        let expected = [(1.0, 20.5), (40.0, 40.0), (100.0, 70.0), (1000.0, 520.0)];
        assert_near(&spline, &expected, 1e-4);
        assert!((spline.end_slope() - 0.5).abs() < 1e-6);
    }

    #[test]
    fn verus_t8_a_knee_is_smoothed_as_rho_sets() {
        let low = fitted(&knee(75, 40.0, 2.0), 5, 2.0);
        assert!((low.penalty - 15.7018).abs() < 1e-4, "{}", low.penalty);
        let expected = [
            (1.0, 14.248),
            (20.0, 30.044),
            (40.0, 47.697),
            (60.0, 67.146),
            (75.0, 82.361),
            (100.0, 107.851),
        ];
        assert_near(&low, &expected, 0.001);

        let sharp = fitted(&knee(75, 40.0, 2.0), 5, -4.0);
        assert_near(&sharp, &[(20.0, 30.401), (40.0, 33.17), (75.0, 99.907)], 0.001);

        let high = fitted(&knee(300, 100.0, 0.5), 20, 2.0);
        let expected = [(50.0, 29.064), (100.0, 34.437), (200.0, 79.663), (400.0, 180.00)];
        assert_near(&high, &expected, 0.005);
    }

    /// With no penalty to speak of and a point on every node the curve goes through the points.
    #[test]
    fn without_penalty_the_nodes_are_met() {
        let points: Vec<_> = (0..9_u32).map(|i| (f64::from(i), f64::from(i * i % 7))).collect();
        let spline = fitted(&points, 9, -9.0);
        assert_near(&spline, &points, 1e-4);
    }

    #[test]
    fn one_abscissa_gives_a_constant_and_none_gives_no_fit() {
        let spline = fitted(&[(7.0, 42.0)], 5, 2.0);
        assert_near(&spline, &[(1.0, 42.0), (7.0, 42.0), (100.0, 42.0)], 1e-9);
        assert_eq!(spline.end_slope(), 0.0);
        assert!(!Spline::default().fit(std::iter::empty(), 5, 2.0));
    }

    #[test]
    fn two_far_points_give_the_line_through_them() {
        let spline = fitted(&[(1.0, 10.0), (1000.0, 1009.0)], 66, 2.0);
        assert_near(&spline, &[(1.0, 10.0), (500.0, 509.0), (1000.0, 1009.0)], 1e-3);
    }

    #[test]
    fn the_curve_is_continuous_over_nodes_and_ends() {
        let spline = fitted(&knee(300, 100.0, 0.5), 20, 0.0);
        for i in 0..4000 {
            let x = f64::from(i) * 0.1;
            assert!((spline.at(x + 1e-6) - spline.at(x)).abs() < 1e-4, "jump at {x}");
        }
    }

    /// The definition, taken literally: full matrices over node values.
    fn reference(points: &[(f64, f64)], nodes: usize, rho: f64, x: f64) -> f64 {
        let (first, last) = (points[0].0, points[points.len() - 1].0);
        let step = (last - first) / (nodes - 1) as f64;
        let unit = |j: usize| {
            let mut values = vec![0.0; nodes];
            values[j] = 1.0;
            let bends = second_derivatives(&values);
            (values, bends)
        };
        let bases: Vec<_> = (0..nodes).map(unit).collect();
        let basis = |j: usize, x: f64| interpolate(&bases[j].0, &bases[j].1, (x - first) / step);
        let wide = 2.0 / (nodes - 1) as f64;
        let mean = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
        let mut a = vec![vec![0.0; nodes]; nodes];
        let mut f = vec![vec![0.0; nodes]; nodes];
        let mut right = vec![0.0; nodes];
        for i in 0..nodes {
            right[i] = points.iter().map(|p| basis(i, p.0) * (p.1 - mean)).sum();
            for j in 0..nodes {
                f[i][j] = points.iter().map(|p| basis(i, p.0) * basis(j, p.0)).sum();
                let (s, t) = (&bases[i].1, &bases[j].1);
                a[i][j] = (0..nodes - 1)
                    .map(|k| {
                        let cross = s[k] * t[k + 1] + s[k + 1] * t[k];
                        (2.0 * (s[k] * t[k] + s[k + 1] * t[k + 1]) + cross) / 6.0
                    })
                    .sum::<f64>()
                    / wide.powi(3);
            }
        }
        let largest = |m: &[Vec<f64>]| (0..nodes).map(|i| m[i][i]).fold(0.0, f64::max);
        let penalty = 10_f64.powf(rho) * largest(&f) / largest(&a);
        for (f, a) in f.iter_mut().zip(&a) {
            f.iter_mut().zip(a).for_each(|(f, a)| *f += penalty * a);
        }
        let values = gauss(f, right);
        let bends = second_derivatives(&values);
        mean + interpolate(&values, &bends, (x - first) / step)
    }

    /// Second derivatives of the natural interpolating spline with node distance 1.
    fn second_derivatives(values: &[f64]) -> Vec<f64> {
        let n = values.len();
        let mut matrix = vec![vec![0.0; n]; n];
        let mut right = vec![0.0; n];
        matrix[0][0] = 1.0;
        matrix[n - 1][n - 1] = 1.0;
        for i in 1..n - 1 {
            (matrix[i][i - 1], matrix[i][i], matrix[i][i + 1]) = (1.0, 4.0, 1.0);
            right[i] = 6.0 * (values[i - 1] - 2.0 * values[i] + values[i + 1]);
        }
        gauss(matrix, right)
    }

    fn interpolate(values: &[f64], bends: &[f64], u: f64) -> f64 {
        let i = (u as usize).min(values.len() - 2);
        let (t, s) = (u - i as f64, 1.0 - (u - i as f64));
        s * values[i]
            + t * values[i + 1]
            + ((s * s * s - s) * bends[i] + (t * t * t - t) * bends[i + 1]) / 6.0
    }

    fn gauss(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
        let n = right.len();
        for i in 0..n {
            let pivot = (i..n).max_by(|a, b| matrix[*a][i].abs().total_cmp(&matrix[*b][i].abs()));
            matrix.swap(i, pivot.unwrap());
            right.swap(i, pivot.unwrap());
            for j in i + 1..n {
                let factor = matrix[j][i] / matrix[i][i];
                let row = matrix[i].clone();
                matrix[j].iter_mut().zip(&row).for_each(|(x, y)| *x -= factor * y);
                right[j] -= factor * right[i];
            }
        }
        for i in (0..n).rev() {
            let known: f64 = (i + 1..n).map(|j| matrix[i][j] * right[j]).sum();
            right[i] = (right[i] - known) / matrix[i][i];
        }
        right
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_banded_solution_is_that_of_the_definition(
            delays in prop::collection::vec(prop::option::weighted(0.6, 10.0..500.0_f64), 20..120),
            nodes in 5_usize..40,
            rho in -2.0..4.0_f64,
        ) {
            let points: Vec<(f64, f64)> = delays
                .iter()
                .enumerate()
                .filter_map(|(i, delay)| delay.map(|delay| (i as f64 + 1.0, delay)))
                .collect();
            prop_assume!(points.len() > 4);
            let spline = fitted(&points, nodes, rho);
            for &(x, _) in &points {
                let expected = reference(&points, nodes, rho, x);
                prop_assert!((spline.at(x) - expected).abs() < 1e-5, "f({}) = {}, not {}", x, spline.at(x), expected);
            }
        }
    }
}
